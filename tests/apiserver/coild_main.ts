/** Starts coild by itself, as `main.ts` does by its role. */
import { main } from "../../roles/coild/mod.ts";

await main(Deno.args, { program: "coild" });
