"""Every store and day goes through three programs on its own; its key is an argument of each run.

streamsched deploy examples/keyed_chain/app.py
"""

from streamsched import App, partitions, program

app = App("sales")
clean = app.bash("clean", 'echo "clean store=$STREAMSCHED_ARG_STORE date=$STREAMSCHED_ARG_DATE"')
join = app.bash("join", 'echo "join store=$STREAMSCHED_ARG_STORE date=$STREAMSCHED_ARG_DATE"')
invoice = app.bash("invoice", 'echo "invoice date=$STREAMSCHED_ARG_DATE"')
# `{key.date}` where an argument is filled in: http and publish programs, and command lines of Spark.
closed = app.publish("closed", "day-closed", attributes={"date": "{key.date}"})

# Orders of a store and day: cleaned as soon as they are there.
app.schedule("clean", clean, when=partitions("orders").per("store", "date"))

# The run of `clean` has the store and the day as arguments, so it is joined with the prices of the same two.
app.schedule("join", join, when=(program(clean) & partitions("prices")).per("store", "date"))

# Only runs with this argument count. From here on the key is the day alone.
app.schedule("invoice", invoice, when=program(join, match={"store": "berlin"}).per("date"))

# Both stores have been joined: whichever day is complete first.
app.schedule("close", closed, when=program(join, times=2).per("date"))
