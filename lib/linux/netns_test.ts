import assert from "node:assert/strict";
import { inNetns, LinuxError, Netns, NotANetnsError, openLibc } from "./mod.ts";

openLibc(); // stays open: not a leak of the test that happens to be first

/** How many descriptors are open now that point to one of these. They are the process's: other tests have theirs. */
function openFiles(paths: readonly string[]): number {
  let count = 0;
  for (const entry of Deno.readDirSync("/proc/self/fd")) {
    try {
      const target = Deno.readLinkSync(`/proc/self/fd/${entry.name}`);
      if (paths.includes(target)) count++;
    } catch (error) {
      // The descriptor of the directory itself is gone by now.
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return count;
}

Deno.test("Netns.open() says that the file is missing", () => {
  assert.throws(
    () => Netns.open("/run/netns/there-is-none"),
    (error) =>
      error instanceof LinuxError && error.code === "ENOENT" &&
      error.message ===
        'Cannot open network namespace "/run/netns/there-is-none": open returned ENOENT',
  );
});

Deno.test("Netns.open() does not wait for a writer of a FIFO", async () => {
  const directory = await Deno.makeTempDir();
  const path = `${directory}/fifo`;
  try {
    await new Deno.Command("mkfifo", { args: [path] }).output();
    assert.throws(() => Netns.open(path), NotANetnsError);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("Netns.open() refuses what is not a network namespace, and leaks nothing", () => {
  const times = 20;
  const file = Deno.makeTempFileSync();
  const namespaces = ["uts", "mnt"].map((kind) =>
    Deno.readLinkSync(`/proc/self/ns/${kind}`)
  );
  const targets = [file, "/", "/dev/null", ...namespaces];
  const before = openFiles(targets);
  try {
    const cases: [string, string][] = [
      [file, "it is not a namespace file"],
      ["/", "it is not a namespace file"],
      ["/dev/null", "it is not a namespace file"],
      ["/proc/self/ns/uts", "it is another kind of namespace"],
      ["/proc/self/ns/mnt", "it is another kind of namespace"],
    ];
    const all = Array.from({ length: times }, () => cases).flat();
    for (const [path, reason] of all) {
      assert.throws(() => Netns.open(path), (error) => {
        assert(error instanceof NotANetnsError && error instanceof TypeError);
        assert.equal(error.path, path);
        assert.equal(
          error.message,
          `Cannot open network namespace "${path}": ${reason}`,
        );
        return true;
      });
    }
  } finally {
    Deno.removeSync(file);
  }
  // Others may open one of them in the meantime, but hardly so often.
  assert.ok(openFiles(targets) < before + times);
});

Deno.test("Netns.open() does not cut a path at a NUL", () => {
  assert.throws(() => Netns.open("/proc/self/ns/net\0/x"), TypeError);
});

Deno.test("Netns.current() is the process's own, with the inode that /proc shows", () => {
  using own = Netns.current();
  assert.equal(`net:[${own.inode}]`, Deno.readLinkSync("/proc/self/ns/net"));
  assert.equal(own.isOwn, true);
  using again = Netns.open("/proc/self/ns/net");
  assert.equal(own.sameAs(again), true);
  assert.notEqual(own.fd, again.fd);
});

/** One that is closed, and another one with its number, unless another thread takes that each time. */
function closedAndItsHeir(): [Netns, Netns] {
  for (let attempt = 0; attempt < 100; attempt++) {
    const closed = Netns.current();
    const { fd } = closed;
    closed[Symbol.dispose]();
    const heir = Netns.current();
    if (heir.fd === fd) return [closed, heir];
    heir[Symbol.dispose]();
  }
  throw new Error("Cannot get the same number again");
}

Deno.test("Netns closes its descriptor once, and cannot be used after", () => {
  const [netns, other] = closedAndItsHeir();
  using _other = other;
  const { fd } = other;
  netns[Symbol.dispose]();
  assert.match(Deno.readLinkSync(`/proc/self/fd/${fd}`), /^net:/);
  assert.throws(
    () => netns.fd,
    /^TypeError: Cannot use network namespace ".*": closed$/,
  );
  assert.throws(() => inNetns(netns, () => 1), TypeError);
});
