/** Tag of an ENI: the instance whose coild made it. Upstream's plugin writes it too, so that each finds what the other left. */
export const ENI_INSTANCE_TAG = "node.k8s.amazonaws.com/instance_id";

/** Tag of an ENI: when it was made, in RFC 3339. */
export const ENI_CREATED_TAG = "node.k8s.amazonaws.com/createdAt";

/** Tag of an ENI: its cluster. */
export const ENI_CLUSTER_TAG = "cluster.k8s.amazonaws.com/name";

/** Tag with which an operator keeps an ENI from pods: `"true"` when set. */
export const ENI_UNMANAGED_TAG = "node.k8s.amazonaws.com/no_manage";

/** Says why a text cannot be the name of a cluster. Filters of EC2 would take `*` and `?` for other names too. */
export function clusterNameMistake(text: string): string | undefined {
  return /^[0-9A-Za-z][\w.-]{0,254}$/.test(text)
    ? undefined
    : 'must be the name of a cluster: letters, digits, ".", "-" and "_", 255 at the most';
}
