import assert from "node:assert/strict";
import { coil } from "../../roles/cli/testing.ts";
import type { Installation } from "./installation.ts";

/** `coil status` finds no problem, as after an installation by the guide. */
export async function assertHealthy({ plane }: Installation): Promise<void> {
  const config = `--kubeconfig=${plane.kubeconfig}`;
  const { code, out } = await coil(["status", "--wait=5m", config]);
  assert.equal(code, 0, out);
}
