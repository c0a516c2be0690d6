import { messageOf } from "../../errors/mod.ts";

/** kernel.modules_disabled: 1 forbids loading modules until the machine boots again. */
const MODULES_DISABLED = "/proc/sys/kernel/modules_disabled";

/** Loads modules with modprobe(8). Returns why not all of them were; never throws. */
export async function runModprobe(
  modules: readonly string[],
): Promise<string | undefined> {
  const forbidden = whyForbidden();
  if (forbidden !== undefined) return forbidden;
  try {
    const { success, code, stderr } = await new Deno.Command("modprobe", {
      // One that is missing does not keep the others from being loaded.
      args: ["--all", ...modules],
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).output();
    if (success) return undefined;
    // mutate: words for people.
    const said = new TextDecoder().decode(stderr).trim().replaceAll("\n", "; ");
    return `modprobe ended with code ${code}: ${said}`;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) {
      return 'the program "modprobe" is not installed here';
    }
    return `modprobe could not be run: ${messageOf(error)}`;
  }
}

// mutate: a machine has one kernel.
function whyForbidden(): string | undefined {
  try {
    const disabled = Deno.readTextFileSync(MODULES_DISABLED).trim() !== "0";
    return disabled
      ? 'loading modules is forbidden (sysctl "kernel.modules_disabled")'
      : undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) {
      return "this kernel loads no modules";
    }
    return undefined; // modprobe will give the reason
  }
}
