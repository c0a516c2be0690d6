import { sleep } from "../wait.ts";

const ROOT = "/sys/fs/cgroup";
/** Controllers that kubelet wants in version 1; each has a hierarchy of its own. */
const CONTROLLERS = [
  ...["cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio"],
  ...["pids", "systemd"],
];
/** A killed program stays in its group until the kernel has removed its mounts. For an overlay, the kernel first writes all unwritten data to the disk. */
const REMOVE_MS = 140_000;

/** Group of a lab: its nodes' groups are below it. */
export function labCgroup(lab: string): string {
  return `coil-${lab}`;
}

/**
 * Makes a group of this path, in version 1 in the hierarchy of each controller.
 * @throws {Error} where controllers are missing.
 */
export async function createCgroup(path: string): Promise<void> {
  if (await isThere(`${ROOT}/cgroup.controllers`)) {
    // Version 2: one hierarchy. Anyone who puts processes into a group enables
    // the controllers that it wants on the way there: kubelet does.
    await Deno.mkdir(`${ROOT}/${path}`, { recursive: true });
    return;
  }
  for (const controller of CONTROLLERS) {
    const hierarchy = `${ROOT}/${controller}`;
    if (!await isThere(hierarchy)) {
      throw new Error(
        `Cannot make a node: no control groups at "${hierarchy}"`,
      );
    }
    await Deno.mkdir(`${hierarchy}/${path}`, { recursive: true });
  }
  // A new cpuset is empty: nothing could run in it.
  const parts = path.split("/");
  for (let depth = 1; depth <= parts.length; depth++) {
    const group = `${ROOT}/cpuset/${parts.slice(0, depth).join("/")}`;
    for (const file of ["cpuset.cpus", "cpuset.mems"]) {
      const above = await Deno.readTextFile(`${group}/../${file}`);
      await Deno.writeTextFile(`${group}/${file}`, above);
    }
  }
}

/** Makes a group of this path; returns the directory in which its memory is counted. */
export async function createMemoryGroup(path: string): Promise<string> {
  const isSecond = await isThere(`${ROOT}/cgroup.controllers`);
  if (isSecond) {
    await Deno.writeTextFile(`${ROOT}/cgroup.subtree_control`, "+memory");
  }
  const group = `${ROOT}/${isSecond ? "" : "memory/"}${path}`;
  await Deno.mkdir(group, { recursive: true });
  return group;
}

/** Limits the memory of a group that {@linkcode createMemoryGroup} has made. */
export async function setMemoryLimit(
  group: string,
  bytes: number,
): Promise<void> {
  const name = await fileIn(group, "memory.limit_in_bytes", "memory.max");
  await Deno.writeTextFile(name, String(bytes));
}

/** How much memory its processes have, in bytes. */
export async function memoryIn(group: string): Promise<number> {
  const name = await fileIn(group, "memory.usage_in_bytes", "memory.current");
  return Number(await Deno.readTextFile(name));
}

/** How many of its processes the kernel has killed for want of memory. */
export async function oomKillsIn(group: string): Promise<number> {
  const name = await fileIn(group, "memory.oom_control", "memory.events");
  const text = await Deno.readTextFile(name);
  return Number(/^oom_kill (\d+)$/m.exec(text)?.[1]);
}

/** A file of version 1, or its counterpart of version 2. */
async function fileIn(
  group: string,
  first: string,
  second: string,
): Promise<string> {
  const path = `${group}/${first}`;
  return await isThere(path) ? path : `${group}/${second}`;
}

/** Removes a group and all below it from every hierarchy, once the last of its processes is gone; none is no error. */
export async function removeCgroup(path: string): Promise<void> {
  const left = async () => {
    const groups: string[] = [];
    for (const hierarchy of [ROOT, ...await hierarchies()]) {
      const group = `${hierarchy}/${path}`;
      if (await isThere(group)) groups.push(group);
    }
    return groups;
  };
  if (!await isThere(ROOT)) return;
  const deadline = performance.now() + REMOVE_MS;
  for (let groups = await left(); groups.length > 0; groups = await left()) {
    for (const group of groups) await removeTree(group);
    const [first] = await left();
    if (first === undefined) return;
    if (performance.now() > deadline) {
      throw new Error(`Cannot remove control group "${first}": still in use`);
    }
    await sleep(50);
  }
}

async function hierarchies(): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const entry of Deno.readDir(ROOT)) {
    if (entry.isDirectory) found.push(`${ROOT}/${entry.name}`);
  }
  return found;
}

/** The files of a group go with it: only directories are removed. */
async function removeTree(group: string): Promise<void> {
  try {
    for await (const entry of Deno.readDir(group)) {
      if (entry.isDirectory) await removeTree(`${group}/${entry.name}`);
    }
    await Deno.remove(group);
  } catch (error) {
    // EBUSY: a process is still ending; ENOENT: another one removed it.
    const isBusy = error instanceof Error && /os error 16/.test(error.message);
    if (!isBusy && !(error instanceof Deno.errors.NotFound)) throw error;
  }
}

async function isThere(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}
