import { CniError, ErrorCode } from "../../cni/mod.ts";
import {
  type Attachment,
  findEnds,
  modeOf,
  namesOf,
  planAttachment,
} from "./attachment.ts";
import { holds } from "../state/compare.ts";
import type { Kernel, Outside } from "../kernel/ports.ts";
import { readSides } from "../kernel/read.ts";
import { renderStep } from "../state/step_text.ts";

/**
 * Compares everything that ADD makes with what is there.
 *
 * @throws {CniError} that says what is missing or wrong
 */
export async function check(
  outside: Outside,
  kernel: Kernel,
  attachment: Attachment,
): Promise<void> {
  const { ifname, containerId, settings } = attachment;
  const sides = await readSides(kernel, namesOf(attachment));
  const { pod } = sides;
  const mode = modeOf(pod, attachment);
  const ends = await findEnds(outside, kernel, { mode, settings, pod });
  const { steps, state } = await planAttachment(outside, kernel, {
    attachment,
    mode,
    ends,
    sides,
  });
  const missing = steps.filter((step) => !holds(step, state))
    .map((step) => renderStep(step, { netns: "POD" }));
  if (missing.length === 0) return;
  throw new CniError(
    `interface "${ifname}" of container "${containerId}" is not as ADD made it`,
    {
      code: ErrorCode.INTERNAL,
      details: `this would repair it: ${missing.join("; ")}`,
    },
  );
}
