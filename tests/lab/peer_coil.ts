import * as path from "node:path";
import { ensureGoPrograms, type Log } from "./build.ts";
import { GO_SOURCES, goModuleDir } from "./go.ts";
import { type GoProgram, goProgramFile } from "./go_build.ts";

const MODULE = "github.com/cybozu-go/coil/v2";
const PROGRAMS = ["coil", "coild", "coil-egress", "coil-ipam-controller"];
const PEER: GoProgram = {
  output: "peer-coil/",
  about: "Coil v2 (Go)",
  packages: PROGRAMS.map((program) => `${MODULE}/cmd/${program}`),
};

/** Coil v2 as upstream releases it. */
export interface PeerCoil {
  /** Directory of its programs: `coil`, `coild`, `coil-egress`, `coil-ipam-controller`. */
  readonly binDir: string;
  /** Directory of its manifests: `crd`, `rbac` and others. */
  readonly configDir: string;
}

/** Builds upstream's Coil v2 (Go) from its module when it is missing. */
export async function ensurePeerCoil(
  options: { readonly log?: Log } = {},
): Promise<PeerCoil> {
  await ensureGoPrograms([PEER], options);
  const sources = await goModuleDir(MODULE, { dir: GO_SOURCES });
  return {
    binDir: goProgramFile(PEER),
    configDir: path.join(sources, "config"),
  };
}
