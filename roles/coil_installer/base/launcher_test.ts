import assert from "node:assert/strict";
import { InstallError } from "./errors.ts";
import {
  decodeLauncher,
  embeddedLauncher,
  isLauncher,
  launcherFor,
} from "./launcher.ts";

const MARKER = "COIL_SOCKET_PATH";
const FIELD = 112;

const encode = (text: string) => new TextEncoder().encode(text);

/** Code, the marker with its field, more code. */
function template(field: string = "\0".repeat(FIELD)): Uint8Array {
  // What begins like the marker comes before it.
  return encode(`\x7fELF COIL_SOCKET ${MARKER}${field}COIL code`);
}

Deno.test("launcherFor() writes the path behind the marker and leaves all else", () => {
  const made = launcherFor(template(), "/run/coil/coild.sock");
  const expected = "/run/coil/coild.sock".padEnd(FIELD, "\0");
  assert.deepEqual(made, template(expected));
});

Deno.test("launcherFor() leaves the template as it is, for the next path", () => {
  const shared = template();
  launcherFor(shared, "/run/a-long-name-of-a-socket.sock");
  assert.deepEqual(shared, template());
});

Deno.test("launcherFor() takes up to 100 bytes, however many letters they are", () => {
  const longest = `/run/${"ü".repeat(47)}.`;
  assert.equal(encode(longest).length, 100);
  const made = new TextDecoder().decode(launcherFor(template(), longest));
  assert.ok(made.includes(`${MARKER}${longest}\0`));
  assert.throws(
    () => launcherFor(template(), `${longest}x`),
    /^InstallError: Cannot use the socket "\/run\/ü+\.x" .*it has 101 bytes/,
  );
});

for (const path of ["run/coild.sock", "", "/run/a\0b"]) {
  Deno.test(`launcherFor() refuses the path ${JSON.stringify(path)}`, () => {
    assert.throws(() => launcherFor(template(), path), InstallError);
  });
}

for (
  const [what, bytes] of [
    ["has no marker", encode("\x7fELF code")],
    ["ends with the marker", encode(`\x7fELF ${MARKER}`)],
    ["ends within the field", encode(`${MARKER}${"\0".repeat(FIELD - 1)}`)],
    ["has a path already", template("/x".padEnd(FIELD, "\0"))],
    ["has a field that is too small", template("\0".repeat(FIELD - 1))],
    ["is empty", new Uint8Array()],
  ] as const
) {
  Deno.test(`launcherFor() refuses a template that ${what}`, () => {
    assert.throws(() => launcherFor(bytes, "/run/s"), /no place for the/);
  });
}

Deno.test("isLauncher() knows one with a path and one without", () => {
  assert.ok(isLauncher(template()));
  assert.ok(isLauncher(launcherFor(template(), "/run/s")));
  assert.ok(!isLauncher(encode("\x7fELF COIL_SOCKET COIL_SOCKET_PAT")));
});

Deno.test("decodeLauncher() gives what the build encoded, and nothing for a build without", () => {
  for (const bytes of [template(), template().subarray(1)]) {
    assert.deepEqual(decodeLauncher(bytes.toBase64()), bytes);
  }
  assert.equal(decodeLauncher(""), undefined);
});

Deno.test("embeddedLauncher() has none when it runs from source", () => {
  assert.equal(embeddedLauncher(), undefined);
});
