import * as path from "node:path";
import type { Log } from "../build.ts";
import { CommandError, run } from "../command.ts";
import { within } from "./deadline.ts";
import { VmStartError } from "./errors.ts";
import { digest, exists, remove, removeUnused, touch, vmDir } from "./files.ts";
import { Machine, qemuArguments, type VmImage } from "./machine.ts";
import { machineDir } from "./machine_dir.ts";

/** A booted guest's memory and device state, from which any number of machines start at once. */
export interface Snapshot {
  /** Mapped copy-on-write: a machine reads only the pages that it uses. */
  readonly memory: string;
  readonly state: string;
}

/** Ten times what it takes when the machine has nothing else to do. */
const BOOT_MS = 180_000;
/** A boot hangs once in some thirty. */
const TRIES = 3;

/** The image's snapshot, made when there is none. The caller holds the lock. */
export async function ensureSnapshot(
  image: VmImage,
  log: Log,
): Promise<Snapshot> {
  const dir = path.join(vmDir(), `snapshot-${await keyOf(image)}`);
  const snapshot = { memory: `${dir}/memory`, state: `${dir}/state` };
  if (await exists(dir)) {
    await touch(dir);
    return snapshot;
  }
  log("booting the virtual machine once, for a snapshot");
  for (let tries = 1;; tries++) {
    try {
      await make(image, `${dir}.part`);
      break;
    } catch (error) {
      if (!(error instanceof VmStartError) || tries === TRIES) throw error;
      log(`${error.message}; trying again`);
    }
  }
  await Deno.rename(`${dir}.part`, dir);
  for (const prefix of ["snapshot-", "initramfs-", "packages-"]) {
    await removeUnused(vmDir(), prefix);
  }
  return snapshot;
}

async function keyOf(image: VmImage): Promise<string> {
  const memory = { file: "", shared: true };
  const args = qemuArguments({ image, dir: "", memory, shares: [] });
  const version = await run(image.packages.qemu, ["--version"]);
  return digest(version, ...args);
}

async function make(image: VmImage, dir: string): Promise<void> {
  await remove(dir);
  await Deno.mkdir(dir, { recursive: true });
  await using work = await machineDir();
  const file = `${dir}/memory`;
  await using machine = await Machine.start({
    image,
    dir: work.path,
    memory: { file, shared: true },
    shares: [],
  });
  // What the guest writes to them before the command is of no interest.
  const drained = [machine.stdout, machine.stderr].map((s) =>
    s.pipeTo(new WritableStream()).catch(() => {})
  );
  await expectReady(machine);
  const { monitor } = machine;
  await monitor.execute("migrate-set-capabilities", {
    // The memory is in the file already.
    capabilities: ["x-ignore-shared", "events"]
      .map((capability) => ({ capability, state: true })),
  });
  await monitor.execute("migrate-set-parameters", {
    "max-bandwidth": 10_000_000_000,
  });
  await monitor.execute("migrate", { uri: `exec:cat >'${dir}/state'` });
  const isSaved = await within(BOOT_MS, monitor.migrated().then(() => true));
  if (isSaved !== true) {
    throw new VmStartError(
      `Cannot save the virtual machine within ${BOOT_MS / 1000} s`,
    );
  }
  await machine.end();
  await Promise.all(drained);
  await run("fallocate", ["-d", file]).catch((error) => {
    // Pages of zeroes need take no room, but not every file system can do that.
    if (!(error instanceof CommandError)) throw error;
  });
}

/** Waits until the guest has booted. @throws {VmStartError} when it does not in time. */
async function expectReady(machine: Machine): Promise<void> {
  const word = await within(BOOT_MS, machine.nextWord());
  if (word === "READY") return;
  const end = await machine.end();
  throw new VmStartError(
    `Cannot boot the virtual machine: it said ${
      word === undefined ? "nothing" : `"${word}"`
    }\n${end}\n${await machine.lastWords()}`,
  );
}
