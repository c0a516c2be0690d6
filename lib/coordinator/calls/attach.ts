import { settled } from "../../async/mod.ts";
import { applySteps, type Undo } from "../kernel/apply.ts";
import {
  type ConfiguredAttachment,
  findEnds,
  modeOf,
  namesOf,
  planAttachment,
} from "./attachment.ts";
import type { Kernel, Outside } from "../kernel/ports.ts";
import { announce, probe, refuseHosts } from "./probing.ts";
import { readAddresses, readSides } from "../kernel/read.ts";
import { ensureVeth } from "../kernel/veth_pair.ts";
import { planVeth } from "../plan/veth.ts";
import type { SideState } from "../state/state.ts";

/**
 * Joins one interface of a pod to its host. What it changed is taken back when
 * it fails, but for the host's rule, which other pods need.
 */
export async function attach(
  outside: Outside,
  kernel: Kernel,
  attachment: ConfiguredAttachment,
): Promise<void> {
  const { ifname: nic, settings } = attachment;
  const names = namesOf(attachment);
  await using stack = new AsyncDisposableStack();
  const undo = quietly(stack, outside, nic);
  if (settings.detectIpConflict || settings.detectGateway) {
    const read = await readAddresses(kernel.pod, names);
    const pod = settings.detectIpConflict ? withDuplicates(read) : read;
    modeOf(pod, attachment); // what does not fit is refused before the network is asked
    await probe(outside, kernel, { attachment, pod, undo });
  }
  // The first one is joined by a pair, or not at all.
  const pair = nic === settings.firstNic
    ? planVeth(attachment, { mtu: settings.vethMtu })
    : undefined;
  const look = async () =>
    await readSides(kernel, names, { hostEnd: (await pair)?.hostName });
  const [first, spec] = await settled([look(), pair]);
  const mode = modeOf(first.pod, attachment);
  await refuseHosts(outside, kernel, { ifname: nic, sides: first });
  let sides = first;
  const inside = sides.pod.links.find(({ name }) => name === spec?.podName);
  const ends = spec === undefined
    ? await findEnds(outside, kernel, { mode, settings, pod: sides.pod })
    : await ensureVeth(kernel, {
      spec,
      inside,
      present: sides.hostEnd,
    }, undo);
  // mutate: a look more than is needed only takes time.
  if (ends.isNew && inside !== undefined) sides = await look();
  const planned = await planAttachment(outside, kernel, {
    attachment,
    mode,
    ends,
    sides,
  });
  const { steps, state, input } = planned;
  outside.note?.({ mode, table: input.moves.table?.table });
  await applySteps(kernel, steps, { state, undo, ends });
  if (settings.macPrefix !== undefined) {
    await announce(outside, kernel, nic);
  }
  stack.move();
}

/** Of an address that the kernel has found in use, the owner is still to be found. */
function withDuplicates(pod: SideState): SideState {
  const addresses = pod.addresses.map((entry) => ({
    ...entry,
    dadFailed: false,
  }));
  return { ...pod, addresses };
}

/** Undo steps must not throw: the caller is to see what failed first. */
function quietly(
  stack: AsyncDisposableStack,
  { warn }: Outside,
  nic: string,
): Undo {
  return {
    defer(undo) {
      stack.defer(async () => {
        try {
          await undo();
        } catch (err) {
          warn("Failed to undo a part of ADD", { iface: nic, err });
        }
      });
    },
  };
}
