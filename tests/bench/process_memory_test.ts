import assert from "node:assert/strict";
import { workingSetOf } from "./process_memory.ts";

const MIB = 2 ** 20;
/** Files of a control group, by version of control groups. */
const GROUPS = {
  "1": {
    "memory.usage_in_bytes": `${40 * MIB}\n`,
    "memory.stat": `inactive_file 1\ntotal_cache 9\ntotal_inactive_file ${
      8 * MIB
    }\n`,
  },
  "2": {
    "memory.current": `${40 * MIB}\n`,
    "memory.stat": `file 9\ninactive_file ${8 * MIB}\nactive_file 7\n`,
  },
};

for (const [version, files] of Object.entries(GROUPS)) {
  Deno.test(`workingSetOf() leaves out files that were not used lately, in version ${version}`, async () => {
    const group = await Deno.makeTempDir();
    try {
      for (const [name, text] of Object.entries(files)) {
        await Deno.writeTextFile(`${group}/${name}`, text);
      }
      assert.equal(workingSetOf(group), 32);
    } finally {
      await Deno.remove(group, { recursive: true });
    }
  });
}
