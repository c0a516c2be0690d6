import assert from "node:assert/strict";
import { LinuxError, openLibc, tryLockFile } from "./mod.ts";

openLibc(); // stays open: not a leak of the test that happens to be first

Deno.test("tryLockFile() gives the lock to one at a time", () => {
  const directory = Deno.makeTempDirSync();
  try {
    const path = `${directory}/lock`;
    const first = tryLockFile(path);
    assert.notEqual(first, undefined);
    assert.equal(tryLockFile(path), undefined);
    first?.[Symbol.dispose]();
    const second = tryLockFile(path);
    assert.notEqual(second, undefined);
    first?.[Symbol.dispose](); // a second time: must not free the other's
    assert.equal(tryLockFile(path), undefined);
    second?.[Symbol.dispose]();
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("tryLockFile() makes a file that others cannot read, and keeps what is in one", () => {
  const directory = Deno.makeTempDirSync();
  try {
    const path = `${directory}/lock`;
    tryLockFile(path)?.[Symbol.dispose]();
    assert.equal((Deno.statSync(path).mode ?? 0) & 0o777, 0o600);
    Deno.writeTextFileSync(path, "kept");
    tryLockFile(path)?.[Symbol.dispose]();
    assert.equal(Deno.readTextFileSync(path), "kept");
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("tryLockFile() says why the file cannot be opened", () => {
  assert.throws(
    () => tryLockFile("/there-is-none/lock"),
    (error) =>
      error instanceof LinuxError &&
      error.message ===
        'Cannot lock file "/there-is-none/lock": open returned ENOENT',
  );
});
