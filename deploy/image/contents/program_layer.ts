// The image's second layer: the executable, and a link of every role's name.
import { PROGRAM_DIR, ROLE_LINKS } from "./roles.ts";
import { Tree } from "../../../lib/tar/mod.ts";

const LICENSE = new URL("../../../LICENSE", import.meta.url);

/** Who may copy what, where Debian has it. */
async function copyright(): Promise<string> {
  return `${await Deno.readTextFile(LICENSE)}
The executable contains Deno ${Deno.version.deno} (https://deno.com), copyright
the Deno authors, under the same license, and packages of npm under theirs.
`;
}

/** The layer's files. */
export async function planProgramLayer(
  executable: string,
  options: { readonly sbom: string },
): Promise<Tree> {
  const { size: sizeBytes } = await Deno.stat(executable);
  const tree = new Tree();
  tree.add({
    path: `${PROGRAM_DIR}/coil`,
    mode: 0o755,
    kind: "file",
    content: { file: executable, sizeBytes },
  });
  tree.addText("usr/share/doc/coil/copyright", await copyright());
  tree.addText("usr/share/doc/coil/sbom.spdx.json", options.sbom);
  for (const role of ROLE_LINKS) tree.addLink(`${PROGRAM_DIR}/${role}`, "coil");
  return tree;
}
