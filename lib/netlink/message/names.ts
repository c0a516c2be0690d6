/** IFNAMSIZ of `<linux/if.h>` without the NUL. */
const MAX_NAME_BYTES = 15;
/**
 * dev_valid_name() of net/core/dev.c refuses these, but for two: control
 * characters confuse every tool, and in a name with "%" the kernel sees a
 * pattern (dev_alloc_name_ns()): "eth%d" would become "eth0", say.
 */
// deno-lint-ignore no-control-regex -- that is what is looked for
const FORBIDDEN = /[/:%\s\u0000-\u001f\u007f]/;
const MAC = /^[0-9a-f]{2}(?::[0-9a-f]{2}){5}$/i;

/**
 * Returns the interface name when the kernel would take it.
 *
 * @throws {SyntaxError} when it would not
 */
export function checkInterfaceName(name: string): string {
  const bytes = new TextEncoder().encode(name).byteLength;
  const valid = bytes >= 1 && bytes <= MAX_NAME_BYTES &&
    name !== "." && name !== ".." && !FORBIDDEN.test(name);
  if (!valid) {
    throw new SyntaxError(
      `Cannot use interface name ${
        JSON.stringify(name)
      }: the kernel takes 1 to ${MAX_NAME_BYTES} bytes without "/", ":", "%" or blanks`,
    );
  }
  return name;
}

/**
 * Reads an Ethernet address such as `02:00:0a:01:02:03`.
 *
 * @throws {SyntaxError} when the text is not one
 */
export function parseMac(text: string): Uint8Array<ArrayBuffer> {
  if (!MAC.test(text)) {
    throw new SyntaxError(
      `Cannot parse MAC address: current value is ${JSON.stringify(text)}`,
    );
  }
  return Uint8Array.from(text.split(":"), (byte) => parseInt(byte, 16));
}

/** Writes a link-layer address in hexadecimal, colons between. */
export function formatMac(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(
    ":",
  );
}
