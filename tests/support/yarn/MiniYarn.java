import java.io.File;
import java.io.FileWriter;
import java.io.Writer;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** A YARN cluster of one node in this process, on loopback: `MiniYarn FOLDER PORT…`; the folder gets its configuration. */
public class MiniYarn {
  public static void main(String[] arguments) throws Exception {
    YarnConfiguration conf = new YarnConfiguration();
    String[] addresses = {
      YarnConfiguration.RM_ADDRESS, YarnConfiguration.RM_SCHEDULER_ADDRESS, YarnConfiguration.RM_RESOURCE_TRACKER_ADDRESS,
      YarnConfiguration.RM_ADMIN_ADDRESS, YarnConfiguration.RM_WEBAPP_ADDRESS, YarnConfiguration.NM_ADDRESS,
      YarnConfiguration.NM_LOCALIZER_ADDRESS, YarnConfiguration.NM_WEBAPP_ADDRESS
    };
    for (int each = 0; each < addresses.length; each++) {
      conf.set(addresses[each], "127.0.0.1:" + arguments[each + 1]);
    }
    conf.set(YarnConfiguration.RM_HOSTNAME, "127.0.0.1");
    conf.set(YarnConfiguration.RM_BIND_HOST, "127.0.0.1");
    conf.set(YarnConfiguration.NM_BIND_HOST, "127.0.0.1");
    conf.setBoolean(YarnConfiguration.YARN_MINICLUSTER_FIXED_PORTS, true);
    conf.setBoolean(YarnConfiguration.YARN_MINICLUSTER_USE_RPC, true);
    conf.setInt(YarnConfiguration.YARN_MINICLUSTER_NM_PMEM_MB, 6144);
    conf.setInt(YarnConfiguration.NM_VCORES, 8);
    conf.setInt(YarnConfiguration.RM_SCHEDULER_MINIMUM_ALLOCATION_MB, 256);
    conf.setBoolean(YarnConfiguration.NM_VMEM_CHECK_ENABLED, false);
    conf.setBoolean(YarnConfiguration.NM_PMEM_CHECK_ENABLED, false);
    conf.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "99.9");
    conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "0.8");
    conf.set("yarn.scheduler.capacity.root.queues", "default");
    conf.set("yarn.scheduler.capacity.root.default.capacity", "100");
    conf.set("yarn.scheduler.capacity.root.default.maximum-am-resource-percent", "0.8");
    MiniYARNCluster cluster = new MiniYARNCluster("mini", 1, 1, 1);
    cluster.init(conf);
    cluster.start();
    if (!cluster.waitForNodeManagersToConnect(300000)) {
      throw new IllegalStateException("the node has not connected");
    }
    write(arguments[0], "core-site.xml",
        "<configuration><property><name>fs.defaultFS</name><value>file:///</value></property></configuration>");
    File last = new File(arguments[0], "yarn-site.new");
    try (Writer writer = new FileWriter(last)) {
      cluster.getConfig().writeXml(writer);
    }
    last.renameTo(new File(arguments[0], "yarn-site.xml"));
    Thread.sleep(Long.MAX_VALUE);
  }

  private static void write(String folder, String name, String content) throws Exception {
    try (Writer writer = new FileWriter(new File(folder, name))) {
      writer.write(content);
    }
  }
}
