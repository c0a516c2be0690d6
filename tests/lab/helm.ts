import { ensureGoPrograms, type Log } from "./build.ts";
import { type GoProgram, goProgramFile } from "./go_build.ts";

const HELM: GoProgram = {
  output: "helm",
  about: "helm",
  packages: ["helm.sh/helm/v3/cmd/helm"],
};

/** Builds helm from its Go module when it is missing, and returns its path. */
export async function ensureHelm(
  options: { readonly log?: Log } = {},
): Promise<string> {
  await ensureGoPrograms([HELM], options);
  return goProgramFile(HELM);
}
