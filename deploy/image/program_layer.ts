// The image's second layer: the executable, and a link of every role's name.
import { PROGRAM_DIR, ROLE_LINKS } from "./roles.ts";
import { Tree } from "./tree.ts";

/** The layer's files. */
export async function planProgramLayer(executable: string): Promise<Tree> {
  const { size: sizeBytes } = await Deno.stat(executable);
  const tree = new Tree();
  tree.add({
    path: `${PROGRAM_DIR}/coil`,
    mode: 0o755,
    kind: "file",
    content: { file: executable, sizeBytes },
  });
  for (const role of ROLE_LINKS) tree.addLink(`${PROGRAM_DIR}/${role}`, "coil");
  return tree;
}
