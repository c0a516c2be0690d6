import assert from "node:assert/strict";
import { inNetns, LinuxError, Netns, NotANetnsError, openLibc } from "./mod.ts";

openLibc(); // stays open: not a leak of the test that happens to be first

/** The descriptors that are open now, by what they point to. */
function openFiles(): string[] {
  const targets: string[] = [];
  for (const entry of Deno.readDirSync("/proc/self/fd")) {
    try {
      targets.push(Deno.readLinkSync(`/proc/self/fd/${entry.name}`));
    } catch (error) {
      // The descriptor of the directory itself is gone by now.
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return targets.filter((target) =>
    target.startsWith("/") || target.includes(":[")
  )
    .sort();
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
  Netns.current()[Symbol.dispose](); // what is opened once only is open now
  const before = openFiles();
  const file = Deno.makeTempFileSync();
  try {
    const cases: [string, string][] = [
      [file, "it is not a namespace file"],
      ["/", "it is not a namespace file"],
      ["/dev/null", "it is not a namespace file"],
      ["/proc/self/ns/uts", "it is another kind of namespace"],
      ["/proc/self/ns/mnt", "it is another kind of namespace"],
    ];
    for (const [path, reason] of cases) {
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
  assert.deepEqual(openFiles(), before);
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

Deno.test("Netns closes its descriptor once, and cannot be used after", () => {
  const netns = Netns.current();
  const { fd } = netns;
  netns[Symbol.dispose]();
  using other = Netns.current(); // takes the same number
  assert.equal(other.fd, fd);
  netns[Symbol.dispose]();
  assert.match(Deno.readLinkSync(`/proc/self/fd/${fd}`), /^net:/);
  assert.throws(
    () => netns.fd,
    /^TypeError: Cannot use network namespace ".*": closed$/,
  );
  assert.throws(() => inNetns(netns, () => 1), TypeError);
});
