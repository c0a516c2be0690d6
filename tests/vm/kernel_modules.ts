// The kernel's modules of tunnels. All tests of a run share one kernel: what is
// taken out of it here is back in it afterwards.
import { eventually } from "../lab/wait.ts";
import { run } from "../netns/testing.ts";

/** Each after those that it needs. */
const MODULES = ["ipip", "ip6_tunnel", "fou", "fou6"] as const;

/** A kernel that lacks the modules of tunnels. Disposing of it loads them. */
export interface BareKernel extends AsyncDisposable {
  /** Lets modules be loaded, and loads them, as an administrator does who was told so. */
  repair(): Promise<void>;
}

/** Takes the modules of tunnels out of the kernel; they can be loaded again. */
export async function unloadTunnels(): Promise<AsyncDisposable> {
  await using undo = new AsyncDisposableStack();
  undo.defer(load);
  // Tunnels of an earlier test go with its namespaces, which takes the kernel a moment.
  await eventually("the kernel to let the modules go", async () => {
    await run("modprobe", ["--remove", ...MODULES.toReversed()]);
    return true;
  }, { timeoutMs: 240_000 });
  return undo.move();
}

/** As {@link unloadTunnels}, and there are none that could be loaded, as in a kernel that was built without them. */
export async function kernelWithoutTunnels(): Promise<BareKernel> {
  await using undo = new AsyncDisposableStack();
  undo.use(await unloadTunnels());
  const hidden = undo.use(await hideModules());
  const resources = undo.move();
  return {
    async repair() {
      await hidden[Symbol.asyncDispose]();
      await load();
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** A kernel without one module, none of which can be loaded any more. Disposing of it lets them be loaded. */
export async function kernelWithout(module: string): Promise<BareKernel> {
  // What used it goes with the namespaces of an earlier test, which takes the kernel a moment.
  await eventually(`the kernel to let ${module} go`, async () => {
    await run("modprobe", ["--remove", module]);
    return true;
  }, { timeoutMs: 240_000 });
  const hidden = await hideModules();
  return {
    repair: () => Promise.resolve(hidden[Symbol.asyncDispose]()),
    [Symbol.asyncDispose]: () => hidden[Symbol.asyncDispose](),
  };
}

/** Hides the files of all modules, until it is disposed of, once or more. */
async function hideModules(): Promise<AsyncDisposable> {
  await using undo = new AsyncDisposableStack();
  const nothing = await Deno.makeTempDir();
  undo.defer(() => Deno.remove(nothing));
  const modules = `/lib/modules/${Deno.osRelease()}`;
  await run("mount", ["--bind", nothing, modules]);
  undo.defer(async () => void await run("umount", [modules]));
  const resources = undo.move();
  return { [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

/** Whether the kernel has a module, loaded by whom ever. */
export async function isLoaded(
  module: typeof MODULES[number],
): Promise<boolean> {
  const loaded = await Deno.readTextFile("/proc/modules");
  return loaded.split("\n").some((line) => line.startsWith(`${module} `));
}

async function load(): Promise<void> {
  await run("modprobe", ["--all", ...MODULES]);
}
