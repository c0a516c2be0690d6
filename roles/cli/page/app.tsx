import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { formatAge } from "../base/table.ts";
import { Egresses } from "./egresses.tsx";
import { Nodes } from "./nodes.tsx";
import { type Chosen, Pools } from "./pools.tsx";
import { Problems } from "./problems.tsx";
import type { ClusterState } from "./state.ts";

const TABS = ["Problems", "Pools", "Nodes", "Egresses"] as const;
type Tab = typeof TABS[number];

/** What keys do. */
const KEYS = [
  ["1 2 3 4", "problems, pools, nodes, Egresses"],
  ["/", "search; Escape clears it"],
  ["arrow keys, Home, End, Page Up, Page Down", "move"],
  ["[ ]", "the pool before, the next pool"],
  ["n", "the next address that is found, or not as it should be"],
  ["c", "copy the command for the chosen problem"],
  ["t", "dark or light"],
  ["?", "this help"],
] as const;

/** How often ages are shown again. */
const AGES_MS = 10_000;

/** The page. */
export function App({ state, isConnected }: {
  readonly state: ClusterState;
  /** Whether `coil ui` answers. */
  readonly isConnected: boolean;
}): VNode {
  const [tab, setTab] = useState<Tab>("Problems");
  const [query, setQuery] = useState("");
  const [hasHelp, setHelp] = useState(false);
  const [chosen, setChosen] = useState<Chosen>(NOTHING);
  const search = useRef<HTMLInputElement>(null);
  const main = useRef<HTMLElement>(null);
  const now = useNow();
  const [, draw] = useState(0);
  const changeTheme = () => {
    setTheme();
    draw((n) => n + 1); // a canvas does not follow
  };

  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const { key, target } = event;
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (key === "Escape") {
        setQuery("");
        setHelp(false);
        return focusMain(main.current);
      }
      if (target instanceof HTMLInputElement) {
        if (key === "Enter") focusMain(main.current);
        return;
      }
      const wanted = TABS[Number(key) - 1];
      if (wanted !== undefined) setTab(wanted);
      else if (key === "/") search.current?.focus();
      else if (key === "?") setHelp((has) => !has);
      else if (key === "t") changeTheme();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
  useLayoutEffect(() => focusMain(main.current), [
    tab,
    state.status === undefined,
  ]);

  const { status } = state;
  return (
    <>
      <header>
        <h1>Coil</h1>
        <span class="muted">{status?.cluster}</span>
        <nav role="tablist">
          {TABS.map((name) => (
            <button
              type="button"
              role="tab"
              aria-selected={name === tab}
              onClick={() => setTab(name)}
            >
              {name} <Count value={countOf(name, state)} />
            </button>
          ))}
        </nav>
        <input
          ref={search}
          type="search"
          placeholder="Search ( / )"
          aria-label="Search"
          value={query}
          onInput={(event) => setQuery(event.currentTarget.value)}
        />
        <button type="button" onClick={changeTheme} aria-label="Dark or light">
          ◐
        </button>
        <button
          type="button"
          onClick={() => setHelp(!hasHelp)}
          aria-label="Keys"
        >
          ?
        </button>
      </header>
      <Stale state={state} isConnected={isConnected} now={now} />
      {hasHelp && <Help />}
      <main ref={main}>
        {status === undefined ? <p class="page">Reading the cluster …</p> : (
          <>
            {tab === "Problems" && (
              <Problems status={status} query={query} now={now} />
            )}
            {tab === "Pools" && (
              <Pools
                state={state}
                query={query}
                now={now}
                chosen={chosen}
                onChoose={setChosen}
              />
            )}
            {tab === "Nodes" && <Nodes state={state} query={query} />}
            {tab === "Egresses" && (
              <Egresses egresses={state.egresses} query={query} now={now} />
            )}
          </>
        )}
      </main>
    </>
  );
}

const NOTHING: Chosen = { pool: undefined, place: undefined };

function useNow(): Date {
  const [now, setNow] = useState(() => new Date());
  useEffect(() => {
    const timer = setInterval(() => setNow(new Date()), AGES_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** Keys go to what is shown. */
function focusMain(main: HTMLElement | null): void {
  main?.querySelector<HTMLElement>("[tabindex]")?.focus();
}

/** Dark if it is light, light if it is dark. */
function setTheme(): void {
  const { style } = document.documentElement;
  const isDark = style.colorScheme === ""
    ? matchMedia("(prefers-color-scheme: dark)").matches
    : style.colorScheme === "dark";
  style.colorScheme = isDark ? "light" : "dark";
}

function countOf(
  tab: Tab,
  { status, pools, nodes, egresses }: ClusterState,
): number | undefined {
  if (status === undefined) return undefined;
  const counts = {
    Problems: status.problems.length,
    Pools: pools.length,
    Nodes: nodes.length,
    Egresses: egresses.length,
  };
  return counts[tab];
}

function Count({ value }: { readonly value: number | undefined }): VNode {
  return <span class="count">{value}</span>;
}

/** Says that what is shown is old, and since when. */
function Stale({ state: { contact }, isConnected, now }: {
  readonly state: ClusterState;
  readonly isConnected: boolean;
  readonly now: Date;
}): VNode | null {
  if (!isConnected) {
    return (
      <p class="stale" role="alert">coil ui does not answer: has it ended?</p>
    );
  }
  if (contact.lostSince === undefined) return null;
  return (
    <p class="stale" role="alert">
      The API server does not answer; what is shown is{" "}
      {formatAge(contact.lostSince, now)} old
    </p>
  );
}

function Help(): VNode {
  return (
    <dl class="help">
      {KEYS.map(([keys, what]) => (
        <>
          <dt>{keys}</dt>
          <dd>{what}</dd>
        </>
      ))}
    </dl>
  );
}
