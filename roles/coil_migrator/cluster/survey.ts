import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  type Block,
  blockOf,
  type Pool,
  poolOf,
} from "../../../lib/api/mod.ts";
import {
  KubeApiError,
  type KubeClient,
  LIVE_PODS,
  PODS,
  type ResourceType,
} from "../../../lib/kube/mod.ts";
import { CommandError } from "../../../lib/command/mod.ts";
import {
  type LivePod,
  livePodOf,
  Patience,
} from "../../../lib/eviction/mod.ts";
import { editOf } from "../convert/edited_blocks.ts";
import { findV1Pods, type V1Pods } from "./v1_pods.ts";

/** How long the API server may take for a moment. */
const PATIENCE_MS = 20_000;

/** Objects of the cluster that a migration depends on. */
export interface Survey extends V1Pods {
  readonly pools: readonly Pool[];
  /** Reserved or not. */
  readonly blocks: readonly Block[];
  /** Why objects could not be read: they were changed by hand. */
  readonly unreadable: readonly string[];
  /** Blocks that are not as they were dumped. */
  readonly edited: readonly string[];
}

/**
 * Reads pods, pools and blocks, and finds out which pods are v1's.
 *
 * Pods first: a pod that has an address had its block before.
 * @throws {CommandError} when Coil's resources are not installed
 */
export async function readSurvey(
  client: KubeClient,
  { signal }: { readonly signal: AbortSignal },
): Promise<Survey> {
  const patience = new Patience({ timeoutMs: PATIENCE_MS, signal });
  return await patience.ask(() => readOnce(client, signal));
}

async function readOnce(
  client: KubeClient,
  signal: AbortSignal,
): Promise<Survey> {
  const pods: LivePod[] = [];
  await client.listItems(PODS, { fieldSelector: LIVE_PODS, signal }, (pod) => {
    pods.push(livePodOf(pod));
  });
  const unreadable: string[] = [];
  const edited: string[] = [];
  const read = async <T extends object, R>(
    type: ResourceType<T>,
    parse: (object: T) => R,
  ): Promise<R[]> => {
    const parsed: R[] = [];
    await client.listItems(type, { signal }, (object) => {
      try {
        parsed.push(parse(object));
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
        unreadable.push(error.message);
      }
    });
    return parsed;
  };
  try {
    const blocks = await read(ADDRESS_BLOCKS, (object) => {
      const edit = editOf(object);
      if (edit !== undefined) edited.push(edit);
      return blockOf(object);
    });
    const pools = await read(ADDRESS_POOLS, poolOf);
    return {
      ...findV1Pods(pods, { pools, blocks }),
      pools,
      blocks,
      unreadable,
      edited,
    };
  } catch (error) {
    if (!(error instanceof KubeApiError && error.isNotFound)) throw error;
    throw new CommandError(
      "Cannot look at address blocks: Coil's resources are not installed\nInstall them: kubectl apply -f crds/",
      { cause: error },
    );
  }
}

/** Blocks that were taken over from v1. */
export function reservedBlocks({ blocks }: Survey): Block[] {
  return blocks.filter(({ reserved }) => reserved);
}
