/** Starts coil-router by itself, as `main.ts` does by its role. */
import { main } from "../../roles/coil_router/mod.ts";

await main(Deno.args, { program: "coil-router" });
