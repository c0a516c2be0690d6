import { parse, YAMLParseError } from "yaml";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { cidrsIn, CidrsUnknownError } from "./cidr_list.ts";

/** Whose networks a cluster was made with. */
export type NetworkKind = "pods" | "services";

const KUBEADM = "ConfigMap kube-system/kubeadm-config";
const KEYS = { pods: "podSubnet", services: "serviceSubnet" } as const;
const FLAGS = {
  pods: "--cluster-cidr",
  services: "--service-cluster-ip-range",
} as const;

/**
 * What kubeadm was configured with: `ClusterConfiguration` of its ConfigMap.
 *
 * @throws {CidrsUnknownError} when it is malformed
 */
export function kubeadmCidrs(
  data: Readonly<Record<string, string>> | undefined,
  kind: NetworkKind,
): readonly string[] {
  const networking = networkingIn(data?.["ClusterConfiguration"] ?? "");
  return cidrsIn(networking[KEYS[kind]], KUBEADM);
}

function networkingIn(text: string): Readonly<Record<string, unknown>> {
  const networking = configurationIn(text)?.networking ?? {};
  if (typeof networking === "object") return networking;
  throw new CidrsUnknownError(`${KUBEADM} has no valid networking`);
}

function configurationIn(
  text: string,
): { readonly networking?: Readonly<Record<string, unknown>> } | null {
  try {
    return parse(text);
  } catch (cause) {
    if (!(cause instanceof YAMLParseError)) throw cause;
    const message = `${KUBEADM} is not valid YAML: ${cause.code}`;
    throw new CidrsUnknownError(message, { cause });
  }
}

/**
 * What a kube-controller-manager was started with.
 *
 * @throws {CidrsUnknownError} when it has no valid CIDR
 */
export function managerCidrs(
  { spec }: V1Pod,
  kind: NetworkKind,
): readonly string[] {
  const { command = [], args = [] } = spec?.containers?.[0] ?? {};
  const flag = FLAGS[kind];
  return cidrsIn(
    flagIn([...command, ...args], flag),
    `flag ${flag} of kube-controller-manager`,
  );
}

/** `--flag=value`, and `--flag value`. */
function flagIn(words: readonly string[], flag: string): string | undefined {
  const at = words.findLastIndex((word) =>
    word === flag || word.startsWith(`${flag}=`)
  );
  const word = words[at];
  return word === flag ? words[at + 1] : word?.slice(flag.length + 1);
}
