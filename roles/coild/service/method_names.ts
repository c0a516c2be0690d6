/** The service's name in `proto/cni.proto`, the log and the metrics. */
export const SERVICE_NAME = "pkg.cnirpc.CNI";

/** The methods' names there. */
export const METHOD_NAMES = ["Add", "Del", "Check", "Gc", "Status"] as const;

/** One of them. */
export type MethodName = typeof METHOD_NAMES[number];
