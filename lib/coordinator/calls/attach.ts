import { applySteps, type Undo } from "../kernel/apply.ts";
import {
  type Attachment,
  findEnds,
  planAttachment,
  planJoint,
} from "./attachment.ts";
import type { Kernel, Outside } from "../kernel/ports.ts";
import { announce, probe } from "./probing.ts";
import { ensureVeth } from "../kernel/veth_pair.ts";

/**
 * Joins one interface of a pod to its host. What it changed is taken back when
 * it fails, but for the host's rule, which other pods need.
 */
export async function attach(
  outside: Outside,
  kernel: Kernel,
  attachment: Attachment,
): Promise<void> {
  const { ifname: nic, settings } = attachment;
  const joint = await planJoint(kernel, attachment);
  await using stack = new AsyncDisposableStack();
  const undo = quietly(stack, outside, nic);
  await probe(outside, kernel, attachment, undo);
  const ends = joint.veth === undefined
    ? await findEnds(outside, kernel, { ...joint, settings })
    : await ensureVeth(kernel, joint.veth, undo);
  const { mode } = joint;
  const plan = { ends, mode, attachment };
  const planned = await planAttachment(outside, kernel, plan);
  const { steps, state, input } = planned;
  outside.note?.({ mode, table: input.moves.table?.table });
  await applySteps(kernel, steps, { state, undo });
  if (settings.macPrefix !== undefined) {
    await announce(outside, kernel, nic);
  }
  stack.move();
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
