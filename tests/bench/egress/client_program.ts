// coild on a kernel without Foo over UDP: all of it but its clients' tunnels.
import { KERNEL_PLANE, main } from "../../../roles/coild/mod.ts";
import { applyWithoutTunnels } from "./without_tunnels.ts";

await main(Deno.args, {
  program: "coild",
  plane: {
    ...KERNEL_PLANE,
    prepare: () => Promise.resolve(),
    apply: applyWithoutTunnels,
  },
});
