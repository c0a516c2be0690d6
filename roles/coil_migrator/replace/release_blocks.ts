import { waitWhile } from "../../../lib/async/mod.ts";
import { ADDRESS_BLOCKS, type Block } from "../../../lib/api/mod.ts";
import {
  type KubeClient,
  type ObjectMeta,
  unlessGone,
} from "../../../lib/kube/mod.ts";
import { FINALIZER } from "../../../lib/names/mod.ts";
import { CommandError } from "../../../lib/command/mod.ts";
import type { Patience, Progress } from "../../../lib/eviction/mod.ts";

export interface ReleaseContext {
  readonly client: KubeClient;
  readonly patience: Patience;
  readonly signal: AbortSignal;
  readonly progress: Progress;
}

const POLL_MS = 500;
const GONE_TIMEOUT_MS = 60_000;

/**
 * Removes reserved blocks and waits until they are gone. Idempotent. The caller has made sure that no pod has an
 * address of theirs.
 */
export async function releaseBlocks(
  blocks: readonly Block[],
  context: ReleaseContext,
): Promise<void> {
  for (const block of blocks) {
    context.progress.show(`removing AddressBlock ${block.name}`);
    await remove(block, context);
    context.progress.done(
      `AddressBlock ${block.name} of node ${block.node} removed`,
    );
  }
  context.progress.end();
}

async function remove(
  block: Block,
  { client, patience, signal }: ReleaseContext,
): Promise<void> {
  const { name, uid } = block;
  await patience.ask(() =>
    unlessGone(() =>
      client.delete(ADDRESS_BLOCKS, { name, preconditions: { uid }, signal })
    )
  );
  const look = async (): Promise<ObjectMeta | undefined> => {
    const found = await patience.ask(() =>
      client.tryGet(ADDRESS_BLOCKS, { name, metadataOnly: true, signal })
    );
    if (found?.metadata.uid !== uid) return undefined;
    if (!found.metadata.finalizers?.includes(FINALIZER)) return found.metadata;
    await patience.ask(() =>
      unlessGone(() => withoutFinalizer(client, found.metadata))
    );
    return await look();
  };
  await waitWhile(look, {
    timeoutMs: GONE_TIMEOUT_MS,
    pollMs: POLL_MS,
    signal,
    late: ({ finalizers = [] }) =>
      new CommandError(
        `Cannot remove AddressBlock ${name}: it waits for its finalizers ${
          finalizers.join(", ")
        }`,
      ),
  });
}

/** v1's blocks have none when they come from a manifest; it may have been added since. */
async function withoutFinalizer(
  client: KubeClient,
  { name = "", resourceVersion, finalizers = [] }: ObjectMeta,
): Promise<void> {
  const left = finalizers.filter((finalizer) => finalizer !== FINALIZER);
  const metadata = { resourceVersion, finalizers: left };
  await client.patch(ADDRESS_BLOCKS, { name }, { metadata }, { kind: "merge" });
}
