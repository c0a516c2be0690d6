/** A whole Kubernetes for tests: a control plane, and nodes with kubelet, containerd and kube-proxy. */
export { Cluster } from "./cluster.ts";
export { ClusterNode, type NodeDaemon } from "./node.ts";
export { POD_IMAGE } from "./node_files.ts";
