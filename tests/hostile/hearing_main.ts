/**
 * Runs a role that looks at the node's network once an hour instead of every 30 s: what is put back sooner, it has
 * heard of from the kernel, however slow the machine is.
 *
 *   hearing_main.ts coild|coil-router ARGS...
 */
import { main as coild } from "../../roles/coild/mod.ts";
import { main as router } from "../../roles/coil_router/mod.ts";

const lookMs = 3_600_000;

const [program = "", ...args] = Deno.args;
await (program === "coild" ? coild : router)(args, { program, lookMs });
