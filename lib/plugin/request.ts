import {
  type CniEnv,
  CniError,
  ErrorCode,
  type NetConf,
  parseArgs,
  type Result,
} from "../cni/mod.ts";

/** Request to coild, through either door: pkg.cnirpc.CNIArgs. */
export interface CniRequest {
  readonly containerId: string;
  readonly netns: string;
  readonly ifname: string;
  readonly args: Readonly<Record<string, string>>;
  readonly path: string;
  readonly stdinData: Uint8Array;
  readonly ips: readonly string[];
  readonly interfaces: Readonly<Record<string, boolean>>;
  readonly validAttachments: readonly {
    readonly containerId: string;
    readonly ifname: string;
  }[];
}

/** Keys of CNI_ARGS that Kubernetes runtimes set; always sent, maybe empty. */
const POD_KEYS = [
  "K8S_POD_NAME",
  "K8S_POD_NAMESPACE",
  "K8S_POD_INFRA_CONTAINER_ID",
] as const;

/** Sent when it is there: an earlier pod of the same name had another. */
const POD_UID_KEY = "K8S_POD_UID";

/**
 * What coild is asked.
 *
 * @throws {CniError} when CNI_ARGS are malformed or GC lacks its list
 */
export function buildRequest(
  env: CniEnv,
  conf: NetConf,
  stdinData: Uint8Array,
): CniRequest {
  const given = parseArgs(env.args, [...POD_KEYS, POD_UID_KEY]);
  const { prevResult } = conf;
  const args: Record<string, string> = {};
  for (const key of POD_KEYS) args[key] = given[key] ?? "";
  const uid = given[POD_UID_KEY];
  if (uid !== undefined) args[POD_UID_KEY] = uid;
  args["IS_CHAINED"] = String(prevResult !== undefined);
  return {
    containerId: env.containerId,
    netns: env.netns,
    ifname: env.ifname,
    args,
    path: env.path,
    stdinData,
    ips: prevResult === undefined ? [] : plainAddresses(prevResult),
    interfaces: prevResult === undefined ? {} : sandboxed(prevResult),
    validAttachments: env.command === "GC" ? validAttachments(conf) : [],
  };
}

function plainAddresses({ ips }: Result): string[] {
  return ips.map(({ address }) => address.replace(/\/.*$/, ""));
}

/** For each interface, whether it is in a sandbox. */
function sandboxed({ interfaces }: Result): Record<string, boolean> {
  return Object.fromEntries(
    interfaces.map(({ name, sandbox }) => [name, sandbox !== undefined]),
  );
}

/** Without the list everything would count as stale: better to refuse. */
function validAttachments(conf: NetConf) {
  if (conf.validAttachments !== undefined) return conf.validAttachments;
  throw new CniError("missing cni.dev/valid-attachments", {
    code: ErrorCode.INVALID_NETWORK_CONFIG,
    details: "GC releases what is not in that list",
  });
}
