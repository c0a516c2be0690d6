/** Coil's version: that of `deno.json`. */
export const VERSION = "0.1.0";
