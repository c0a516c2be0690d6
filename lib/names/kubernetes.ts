/** API group of every Coil resource. */
export const API_GROUP = "coil.cybozu.com";

/** Served and stored version of {@linkcode API_GROUP}. */
export const API_VERSION = "v2";

/** `apiVersion` of every Coil object. */
export const GROUP_VERSION = "coil.cybozu.com/v2";

/** Annotation on a Namespace that names the address pools of its pods; on a Pod, where {@linkcode POD_POOLS_ANNOTATION} allows it, those of that pod. */
export const POOL_ANNOTATION = "coil.cybozu.com/pool";

/** Annotation on a Namespace: the pools that its pods may name by {@linkcode POOL_ANNOTATION} of their own, separated by commas. */
export const POD_POOLS_ANNOTATION = "coil.cybozu.com/pod-pools";

/** Pool of namespaces without {@linkcode POOL_ANNOTATION}. */
export const DEFAULT_POOL = "default";

/**
 * Prefix of the annotation on a Pod that makes it a client of Egresses: the
 * rest of the key is the namespace of the Egresses, the value their names,
 * separated by commas.
 */
export const EGRESS_ANNOTATION_PREFIX = "egress.coil.cybozu.com/";

/** Annotation on a Pod, `"true"` when set: its packets may have any source, if its namespace has {@linkcode ANY_SOURCE_LABEL}. */
export const ANY_SOURCE_ANNOTATION = "coil.cybozu.com/any-source";

/** Spiderpool's annotation on a Pod: the interface that keeps the default route. */
export const DEFAULT_ROUTE_NIC_ANNOTATION =
  "ipam.spidernet.io/default-route-nic";

/** Label of a Namespace, `"true"` when set: its pods may have {@linkcode ANY_SOURCE_ANNOTATION}. */
export const ANY_SOURCE_LABEL = "coil.cybozu.com/allow-any-source";

/** Label of an AddressBlock: the pool it was allocated from. */
export const POOL_LABEL = "coil.cybozu.com/pool";

/** Label of an AddressBlock: the node that holds it. */
export const NODE_LABEL = "coil.cybozu.com/node";

/** Label of an AddressBlock: UID of the BlockRequest that it answers. */
export const REQUEST_LABEL = "coil.cybozu.com/request";

/** Label of an AddressBlock taken over from Coil v1: `"true"` when set. */
export const RESERVED_LABEL = "coil.cybozu.com/reserved";

/** Annotation of an AddressBlock taken over from Coil v1: says whether it is as the migrator wrote it. */
export const DUMPED_ANNOTATION = "coil.cybozu.com/dumped";

/** Annotation of an AddressBlock: addresses of its node, separated by commas, for routes to the block. */
export const NODE_ADDRESSES_ANNOTATION = "coil.cybozu.com/node-addresses";

/** Annotation of an EgressClientSlice: the newest resource version of the pods that it was written for. */
export const PODS_VERSION_ANNOTATION = "coil.cybozu.com/pods-version";

/** Finalizer on AddressPools and AddressBlocks. */
export const FINALIZER = "coil.cybozu.com";

/** Label key that holds the application's name, {@linkcode APP_NAME}. */
export const APP_NAME_LABEL = "app.kubernetes.io/name";

/** Label key that holds the component, for example `coild`. */
export const APP_COMPONENT_LABEL = "app.kubernetes.io/component";

/** Label key that holds the name of the Egress an object was made for. */
export const APP_INSTANCE_LABEL = "app.kubernetes.io/instance";

/** Value of {@linkcode APP_NAME_LABEL} on everything of Coil's. */
export const APP_NAME = "coil";

/** Namespace that Coil's daemons run in and keep their leases in. */
export const SYSTEM_NAMESPACE = "kube-system";

/** Lease of the controller's address management. */
export const IPAM_LEASE = "coil-ipam-leader";

/** Lease of the controller's egress management. */
export const EGRESS_LEASE = "coil-egress-leader";

/** Lease of the controller that fills the status of SpiderCoordinators. */
export const COORDINATOR_LEASE = "coil-coordinator-leader";

/** Lease of the controller that deletes ENIs of deleted nodes. */
export const VPC_SWEEP_LEASE = "coil-vpc-sweep-leader";

/** The leases of all parts of the controller. */
export const CONTROLLER_LEASES: readonly string[] = [
  IPAM_LEASE,
  EGRESS_LEASE,
  COORDINATOR_LEASE,
  VPC_SWEEP_LEASE,
];

/** Default `spec.blockSizeBits` of an AddressPool: 32 addresses in a block. */
export const DEFAULT_BLOCK_SIZE_BITS = 5;

/** ServiceAccount of the pods of Egresses, in the namespace of each. */
export const EGRESS_SERVICE_ACCOUNT = "coil-egress";

/** RoleBinding that lets the gateways of a namespace report in the status of its Egresses. */
export const EGRESS_ROLE_BINDING = "coil-egress";

/** ClusterRole of {@linkcode EGRESS_ROLE_BINDING}. */
export const EGRESS_GATEWAY_ROLE = "coil-egress-gateway";

/** ClusterRoleBinding whose subjects are the gateways of all namespaces. */
export const EGRESS_CLUSTER_ROLE_BINDING = "coil-egress";

/** The same for clusters with PodSecurityPolicies; most have none. */
export const EGRESS_PSP_BINDING = "psp-coil-egress";

/** Name of the container of an Egress' pods that is the gateway. */
export const EGRESS_CONTAINER = "egress";

/** The one pool of nodes whose pods have addresses of the VPC. */
export const VPC_POOL = "vpc";

/** Annotation on an Event about a CNI call: the container ID that the runtime's log and coild's have of the call. */
export const CONTAINER_ID_ANNOTATION = "coil.cybozu.com/container-id";
