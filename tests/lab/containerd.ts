import * as path from "node:path";
import { ensureGoPrograms, type Log } from "./build.ts";
import { type GoProgram, goProgramFile } from "./go_build.ts";

const MODULE = "github.com/containerd/containerd/v2";
const PLUGINS = "github.com/containernetworking/plugins/plugins";
const CONTAINERD: GoProgram = {
  output: "containerd/",
  about: "containerd 2",
  packages: [
    `${MODULE}/cmd/containerd`,
    `${MODULE}/cmd/containerd-shim-runc-v2`,
    // Those of Debian know no CNI 1.1, and a chain speaks what all of it knows.
    `${PLUGINS}/main/loopback`,
    `${PLUGINS}/meta/portmap`,
    "./cnicall",
  ],
};

/** Executables of containerd 2, and our caller of its CNI library. */
export interface Containerd2 {
  /** Directory of `containerd`, `containerd-shim-runc-v2`, and the plugins `loopback` and `portmap`. */
  readonly directory: string;
  /** Path of `cnicall`: see its source in `tests/lab/go`. */
  readonly cnicall: string;
}

/**
 * Builds containerd 2 from its Go module when it is missing. Debian has containerd 1.6, which knows no CNI 1.1 and so
 * asks no plugin for its STATUS.
 */
export async function ensureContainerd2(
  options: { readonly log?: Log } = {},
): Promise<Containerd2> {
  await ensureGoPrograms([CONTAINERD], options);
  const directory = goProgramFile(CONTAINERD);
  return { directory, cnicall: path.join(directory, "cnicall") };
}
