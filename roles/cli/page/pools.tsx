import type { VNode } from "preact";
import { useLayoutEffect } from "preact/hooks";
import { formatAge } from "../../../lib/api/mod.ts";
import type { BlockView, HolderView, PoolView } from "../ui/view.ts";
import type { ClusterState } from "./state.ts";
import { lookAt, nextPlace, type Place } from "./layout.ts";
import { PoolCanvas } from "./map.tsx";
import { isFoundHolder } from "./search.ts";
import { addressesAt, counted, percent } from "./text.ts";

/** What of the pools is looked at. */
export interface Chosen {
  readonly pool: string | undefined;
  readonly place: Place | undefined;
}

/** Pools, the map of one of them, and who has the address that is chosen. */
export function Pools({ state, query, now, chosen, onChoose }: {
  readonly state: ClusterState;
  readonly query: string;
  readonly now: Date;
  readonly chosen: Chosen;
  readonly onChoose: (chosen: Chosen) => void;
}): VNode {
  const { pools } = state;
  const pool = pools.find(({ row }) => row.name === chosen.pool) ?? pools[0];
  const blocks = pool && state.blocks.get(pool.row.name) || NONE;
  const choosePool = (name: string | undefined) =>
    onChoose({ pool: name, place: undefined });

  usePoolKeys((key) => {
    if (pool === undefined) return;
    const at = pools.indexOf(pool);
    if (key === "[") choosePool(pools[Math.max(0, at - 1)]?.row.name);
    else if (key === "]") {
      choosePool(pools[Math.min(pools.length - 1, at + 1)]?.row.name);
    } else if (key === "n") {
      const place = nextPlace(blocks, chosen.place, wanted(query));
      if (place !== undefined) onChoose({ pool: pool.row.name, place });
    }
  });

  if (pool === undefined) return <p class="page">There are no AddressPools</p>;
  return (
    <div class="pools">
      <nav aria-label="Pools">
        {pools.map((each) => (
          <PoolButton
            key={each.row.name}
            pool={each}
            isChosen={each === pool}
            onClick={() => choosePool(each.row.name)}
          />
        ))}
      </nav>
      <section>
        <p class="legend">
          {pool.row.state !== "Available" && <b>{pool.row.message}</b>}
          <i class="free" /> free <i class="used" /> in use{" "}
          <i class="reserved" /> reserved <i class="odd" /> not as it should be
        </p>
        {pool.subnets.length === 0 && pool.enis === undefined
          ? <p>There is no map of this pool</p>
          : (
            <PoolCanvas
              key={pool.row.name}
              pool={pool}
              blocks={blocks}
              query={query}
              chosen={chosen.place}
              onChoose={(place) => onChoose({ pool: pool.row.name, place })}
            />
          )}
        <Details pool={pool} blocks={blocks} place={chosen.place} now={now} />
      </section>
    </div>
  );
}

const NONE: readonly BlockView[] = [];

/** Uses the handler of the last render for keys that are not typed into the search: a key may come before its picture. */
function usePoolKeys(onKey: (key: string) => void): void {
  useLayoutEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const isTyped = event.target instanceof HTMLInputElement;
      const hasModifier = event.altKey || event.ctrlKey || event.metaKey;
      if (!isTyped && !hasModifier) onKey(event.key);
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  });
}

/** What `n` goes to: what is searched for, else what is wrong. */
function wanted(query: string) {
  return (block: BlockView, place: number): boolean =>
    query === ""
      ? lookAt(block, place) === "odd"
      : block.holders.some((holder) =>
        holder.places.includes(place) && isFoundHolder(query, holder, block)
      );
}

function PoolButton({ pool: { row }, isChosen, onClick }: {
  readonly pool: PoolView;
  readonly isChosen: boolean;
  readonly onClick: () => void;
}): VNode {
  const { allocated = 0, total = 0 } = row.blocks ?? {};
  const share = percent(BigInt(allocated), BigInt(total));
  return (
    <button
      type="button"
      class={isChosen ? "pool chosen" : "pool"}
      aria-current={isChosen}
      onClick={onClick}
    >
      <b>{row.name}</b> <span>{row.state}</span>
      <meter min={0} max={100} high={80} optimum={0} value={share} />
      <span class="wide">
        {allocated} of {counted(total, "block")}, {counted(row.nodes, "node")}
      </span>
    </button>
  );
}

/** Who has the chosen address; without one, what is wrong with the pool. */
function Details({ pool, blocks, place, now }: {
  readonly pool: PoolView;
  readonly blocks: readonly BlockView[];
  readonly place: Place | undefined;
  readonly now: Date;
}): VNode {
  const block = blocks.find(({ name }) => name === place?.block);
  if (place === undefined || block === undefined) {
    const outside = pool.outside.length;
    return (
      <output class="details">
        {outside === 0
          ? "Arrow keys or a click choose an address."
          : `${
            counted(outside, "pod")
          } with addresses of this pool that are in no block: coil ipam check`}
      </output>
    );
  }
  const look = lookAt(block, place.place);
  const holders = block.holders.filter(({ places }) =>
    places.includes(place.place)
  );
  const addresses = addressesAt(block, place.place);
  return (
    <output class="details">
      <b>{addresses.join(", ")}</b>
      {holders.length === 0 && <span>{look}</span>}
      {holders.map((holder) => (
        <Holder
          key={`${holder.namespace}/${holder.pod}`}
          holder={holder}
          now={now}
        />
      ))}
      <span>
        Block {block.name} of Node {block.node}, {block.state}, for{" "}
        {formatAge(block.created, now)}; {block.used} of {block.size} in use
      </span>
      <code>coil explain {addresses[0]}</code>
    </output>
  );
}

function Holder({ holder, now }: {
  readonly holder: HolderView;
  readonly now: Date;
}): VNode {
  const { namespace, pod, node, state, since } = holder;
  return (
    <span>
      Pod {namespace}/{pod} on Node {node}, for {formatAge(since, now)}
      {state !== "ok" && <b class="bad">{` ${state}`}</b>}
    </span>
  );
}
