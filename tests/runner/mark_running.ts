// Preloaded by the runner before each file of tests: a mark names the file while it runs.
import { RUNNING_FILES_ENV } from "./running_files.ts";

const directory = Deno.env.get(RUNNING_FILES_ENV);
if (directory !== undefined) {
  const mark = `${directory}/${crypto.randomUUID()}`;
  Deno.writeTextFileSync(mark, Deno.mainModule);
  addEventListener("unload", () => {
    try {
      Deno.removeSync(mark);
    } catch {
      // After a test that changed its root the mark stays, and is named needlessly.
    }
  });
}
