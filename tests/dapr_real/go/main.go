// An app of Dapr's Go SDK, unchanged: `gosdk PORT`. It has a handler for the jobs `often`, `once` and `bad`, schedules
// them, and prints what it gets: `got JOB DATA`. A job `bad` fails until it has come three times. It ends when it reads
// the end of its standard input.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/dapr/go-sdk/client"
	"github.com/dapr/go-sdk/service/common"
	"github.com/dapr/go-sdk/service/grpc"
)

var (
	lock sync.Mutex
	came = map[string]int{}
)

func handle(_ context.Context, job *common.JobEvent) error {
	lock.Lock()
	defer lock.Unlock()
	came[job.JobType]++
	fmt.Printf("got %s %s\n", job.JobType, job.Data)
	if job.JobType == "bad" && came["bad"] < 3 {
		return errors.New("bad fails")
	}
	return nil
}

func code(err error) string {
	if err == nil {
		return "OK"
	}
	var found interface{ GRPCStatus() *status.Status }
	if errors.As(err, &found) {
		return found.GRPCStatus().Code().String()
	}
	return err.Error()
}

func main() {
	server, err := grpc.NewService("127.0.0.1:" + os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"often", "once", "bad"} {
		if err := server.AddJobEventHandler(name, handle); err != nil {
			log.Fatal(err)
		}
	}
	go func() {
		if err := server.Start(); err != nil {
			log.Fatal(err)
		}
	}()

	dapr, err := client.NewClient()
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	data := &anypb.Any{TypeUrl: "a/b", Value: []byte("payload")}
	job := client.NewJob("surface", client.WithJobSchedule("@every 1h"), client.WithJobRepeats(3),
		client.WithJobDueTime("30m"), client.WithJobTTL("5h"), client.WithJobData(data),
		client.WithJobConstantFailurePolicy(), client.WithJobConstantFailurePolicyMaxRetries(2),
		client.WithJobConstantFailurePolicyInterval(time.Second))
	fmt.Println("scheduled", code(dapr.ScheduleJobAlpha1(ctx, job)))
	fmt.Println("again", code(dapr.ScheduleJobAlpha1(ctx, job)))
	found, err := dapr.GetJobAlpha1(ctx, "surface")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("job", found.Name, *found.Schedule, *found.Repeats, *found.DueTime, *found.TTL, found.Data.GetTypeUrl(), string(found.Data.GetValue()))
	fmt.Println("invalid", code(dapr.ScheduleJobAlpha1(ctx, client.NewJob("x", client.WithJobSchedule("* * * * *"), client.WithJobData(data)))))
	fmt.Println("deleted", code(dapr.DeleteJobAlpha1(ctx, "surface")), code(dapr.DeleteJobAlpha1(ctx, "surface")))
	_, err = dapr.GetJobAlpha1(ctx, "surface")
	fmt.Println("gone", code(err))

	often := client.NewJob("often", client.WithJobSchedule("@every 100ms"), client.WithJobRepeats(3), client.WithJobData(data))
	once := client.NewJob("once", client.WithJobDueTime("1ms"), client.WithJobData(data))
	bad := client.NewJob("bad", client.WithJobDueTime("0s"), client.WithJobData(data), client.WithJobConstantFailurePolicy(),
		client.WithJobConstantFailurePolicyMaxRetries(5), client.WithJobConstantFailurePolicyInterval(20*time.Millisecond))
	for _, each := range []*client.Job{often, once, bad} {
		fmt.Println("scheduled", code(dapr.ScheduleJobAlpha1(ctx, each)))
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}
