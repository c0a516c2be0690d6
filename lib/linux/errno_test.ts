import assert from "node:assert/strict";
import { errnoName, LinuxError } from "./mod.ts";

Deno.test("errnoName() names the numbers that netlink answers with", () => {
  const names: [number, string][] = [
    [1, "EPERM"],
    [2, "ENOENT"],
    [3, "ESRCH"],
    [11, "EAGAIN"],
    [16, "EBUSY"],
    [17, "EEXIST"],
    [19, "ENODEV"],
    [22, "EINVAL"],
    [34, "ERANGE"],
    [95, "EOPNOTSUPP"],
    [99, "EADDRNOTAVAIL"],
    [101, "ENETUNREACH"],
    [105, "ENOBUFS"],
    [524, "ENOTSUPP"],
  ];
  for (const [errno, name] of names) assert.equal(errnoName(errno), name);
});

Deno.test("errnoName() shows the number where there is no name", () => {
  assert.equal(errnoName(9999), "errno 9999");
});

Deno.test("LinuxError says what could not be done and what the kernel answered", () => {
  const error = new LinuxError('open "/x"', { syscall: "open", errno: 2 });
  assert.equal(error.message, 'Cannot open "/x": open returned ENOENT');
  assert.equal(error.code, "ENOENT");
  assert.equal(error.errno, 2);
  assert.equal(error.syscall, "open");
  assert.equal(error.name, "LinuxError");
});
