import { parse, YAMLParseError } from "yaml";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { cidrsIn } from "./cidr_list.ts";

/** The networks that a cluster was made with. */
export interface ClusterNetworks {
  readonly pods: readonly string[];
  readonly services: readonly string[];
}

/** What kubeadm was configured with: `ClusterConfiguration` of its ConfigMap; undefined when it says nothing. */
export function kubeadmNetworks(
  data: Readonly<Record<string, string>> | undefined,
): ClusterNetworks | undefined {
  const networking = networkingIn(data?.["ClusterConfiguration"] ?? "");
  if (networking === undefined) return undefined;
  return {
    pods: cidrsIn(networking["podSubnet"]),
    services: cidrsIn(networking["serviceSubnet"]),
  };
}

function networkingIn(text: string): Record<string, unknown> | undefined {
  try {
    const networking = parse(text)?.networking;
    return typeof networking === "object" && networking !== null
      ? networking
      : undefined;
  } catch (error) {
    if (error instanceof YAMLParseError) return undefined;
    throw error;
  }
}

/** What a kube-controller-manager was started with. */
export function managerNetworks({ spec }: V1Pod): ClusterNetworks {
  const { command = [], args = [] } = spec?.containers?.[0] ?? {};
  const words = [...command, ...args];
  return {
    pods: cidrsIn(flagIn(words, "--cluster-cidr")),
    services: cidrsIn(flagIn(words, "--service-cluster-ip-range")),
  };
}

/** `--flag=value`, and `--flag value`. */
function flagIn(words: readonly string[], flag: string): string | undefined {
  const at = words.findLastIndex((word) =>
    word === flag || word.startsWith(`${flag}=`)
  );
  const word = words[at];
  return word === flag ? words[at + 1] : word?.slice(flag.length + 1);
}
