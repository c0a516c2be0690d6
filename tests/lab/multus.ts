import * as path from "node:path";
import { ensureGoPrograms, type Log } from "./build.ts";
import { type GoProgram, goProgramFile } from "./go_build.ts";

const VERSION = "v4.2.4";
const MULTUS: GoProgram = {
  output: "multus/",
  about: `Multus ${VERSION}`,
  packages: ["./cmd/multus"],
  module: {
    name: `gopkg.in/k8snetworkplumbingwg/multus-cni.v4@${VERSION}`,
    goMinimum: "1.24",
  },
};

/** Builds thin Multus, a CNI plugin without a daemon, from its Go module when it is missing, and returns its path. */
export async function ensureMultus(
  options: { readonly log?: Log } = {},
): Promise<string> {
  await ensureGoPrograms([MULTUS], options);
  return path.join(goProgramFile(MULTUS), "multus");
}
