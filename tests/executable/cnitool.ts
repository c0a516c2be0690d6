// The CNI project's own client: it calls plugins through its library libcni, as
// container runtimes do.
import assert from "node:assert/strict";
import { cacheDir } from "../lab/cache.ts";
import { requireGo } from "../lab/go.ts";
import { isThere } from "../lab/packages.ts";

const CNITOOL = "github.com/containernetworking/cni/cnitool";

/**
 * Path of cnitool, built once for each version.
 *
 * @throws {GoError} when it has to be built, and Go is missing.
 */
export async function cnitool(version: string = "v1.3.0"): Promise<string> {
  const directory = `${cacheDir()}/cnitool-${version}`;
  const path = `${directory}/cnitool`;
  if (isThere(path)) return path;
  await requireGo("/", "1.21");
  const { success, stderr } = await new Deno.Command("go", {
    args: ["install", `${CNITOOL}@${version}`],
    env: { GOBIN: directory, GOFLAGS: "-mod=mod" },
    stdout: "null",
    stderr: "piped",
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  return path;
}
