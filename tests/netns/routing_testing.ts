import { Netns } from "../../lib/linux/mod.ts";
import { RouteSocket } from "../../lib/netlink/mod.ts";
import { type TempNetns, tempNetns } from "./testing.ts";

/** A namespace with a link and a socket into it. */
export interface RoutingHost extends AsyncDisposable {
  readonly host: TempNetns;
  readonly socket: RouteSocket;
  /** The routes of a table, sorted, as `ip` prints them. */
  routes(table: number | string): Promise<string[]>;
}

/** Makes a namespace whose `node0` has 10.9.0.100/24 and fd09::100/64. */
export async function routingHost(): Promise<RoutingHost> {
  const stack = new AsyncDisposableStack();
  const host = stack.use(await tempNetns("route"));
  await host.ip("link", "add", "node0", "type", "bridge");
  await host.ip("address", "add", "10.9.0.100/24", "dev", "node0");
  await host.ip("address", "add", "fd09::100/64", "dev", "node0", "nodad");
  await host.ip("link", "set", "node0", "up");
  using netns = Netns.open(host.path);
  const socket = stack.use(RouteSocket.open({ netns }));
  return {
    host,
    socket,
    async routes(table): Promise<string[]> {
      const lines: string[] = [];
      for (const family of ["-4", "-6"]) {
        // `ip` fails on a table that nobody ever wrote to.
        const { stdout } = await host.tryExec(
          "ip",
          ...[family, "route", "show", "table", String(table)],
        );
        lines.push(...stdout.split("\n"));
      }
      return lines.map((line) => line.trim()).filter((line) => line !== "")
        .toSorted();
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
