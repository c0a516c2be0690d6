import assert from "node:assert/strict";
import { readSysctl, tryReadSysctl, writeSysctl } from "./mod.ts";

Deno.test("readSysctl() reads without the newline", () => {
  assert.match(readSysctl("kernel/ostype"), /^Linux$/);
});

Deno.test("readSysctl() and writeSysctl() refuse what leads elsewhere", () => {
  const names = ["", "/", "net//ipv4", "../etc/passwd", "net/../../x", "net/"];
  for (const name of names) {
    assert.throws(() => readSysctl(name), SyntaxError);
    assert.throws(() => writeSysctl(name, 1), SyntaxError);
  }
});

Deno.test("readSysctl() and writeSysctl() report a sysctl that is not there", () => {
  const name = "net/ipv4/there_is_none";
  assert.throws(() => readSysctl(name), Deno.errors.NotFound);
  assert.throws(() => writeSysctl(name, 1), Deno.errors.NotFound);
});

Deno.test("tryReadSysctl() reads what is there, and refuses what leads elsewhere", () => {
  assert.equal(tryReadSysctl("kernel/ostype"), "Linux");
  assert.equal(tryReadSysctl("net/ipv4/there_is_none"), undefined);
  assert.throws(() => tryReadSysctl("net/../../x"), SyntaxError);
});
