/** Version of Coil, the one of `deno.json`. */
export const VERSION = "0.1.0";
