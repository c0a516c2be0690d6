// Configuration of a node's daemons.

/** Name of the image that holds a pod's namespaces, and that the lab's pods run. */
export const POD_IMAGE = "lab.test/podtool:1";

/**
 * containerd 1.6. Lowering an OOM score would need CAP_SYS_RESOURCE, which a container may lack.
 *
 * When it starts it connects to each pod's shim, by default for 5 s, then asks it for the states of its tasks, for 2 s. It
 * ends pods whose shims have not answered by then, or takes them for ended. CRI gives each sandbox and container 10 s in
 * all (loadContainerTimeout, which no setting changes): that is how long a shim may take at most to give a state.
 */
export function containerdConfig(): string {
  return `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper",
]
[grpc]
  address = "/run/containerd/containerd.sock"
[timeouts]
  "io.containerd.timeout.shim.load" = "60s"
  "io.containerd.timeout.task.state" = "10s"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${POD_IMAGE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
`;
}

/** What {@link kubeletConfig} has to know. */
export interface KubeletFiles {
  readonly caFile: string;
  /** Certificate to serve with, and its key. */
  readonly certificate: { readonly cert: string; readonly key: string };
  readonly cgroup: string;
  readonly resolvConf: string;
  readonly maxPods: number;
}

/** Configuration of kubelet. */
export function kubeletConfig(files: KubeletFiles): unknown {
  return {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    address: "::",
    readOnlyPort: 0,
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: files.caFile },
    },
    authorization: { mode: "Webhook" },
    tlsCertFile: files.certificate.cert,
    tlsPrivateKeyFile: files.certificate.key,
    containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock",
    cgroupDriver: "cgroupfs",
    cgroupRoot: files.cgroup,
    failCgroupV1: false,
    failSwapOn: false,
    oomScoreAdj: 0,
    enforceNodeAllocatable: ["pods"],
    evictionHard: {
      "memory.available": "50Mi",
      "nodefs.available": "0.1%",
      "imagefs.available": "0.1%",
    },
    imageGCHighThresholdPercent: 100,
    nodeStatusUpdateFrequency: "4s",
    resolvConf: files.resolvConf,
    maxPods: files.maxPods,
    serializeImagePulls: false,
    kubeAPIQPS: 500,
    kubeAPIBurst: 1000,
    registryPullQPS: 0,
    shutdownGracePeriod: "0s",
  };
}

/** Configuration of kube-proxy, which must leave the machine's conntrack limits alone. */
export function proxyConfig(kubeconfig: string, node: string): unknown {
  const sync = { syncPeriod: "30s", minSyncPeriod: "0s" };
  return {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode: "nftables",
    clientConnection: { kubeconfig },
    hostnameOverride: node,
    conntrack: {
      maxPerCore: 0,
      min: 0,
      tcpEstablishedTimeout: "0s",
      tcpCloseWaitTimeout: "0s",
    },
    healthzBindAddress: "127.0.0.1:10256",
    metricsBindAddress: "127.0.0.1:10249",
    nftables: sync,
  };
}
