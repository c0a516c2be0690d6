import type { ComponentChildren, VNode } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** Height of a row, as the style sheet has it. */
const ROW_HEIGHT = 28;
/** Rows beyond the edges, so that a fast scroll shows no gap. */
const SPARE = 8;

export interface Column<T> {
  readonly header: string;
  readonly value: (row: T) => ComponentChildren;
  /** Width as in a grid. */
  readonly width: string;
}

/** A table of any length: only the rows that are seen exist. */
export function Rows<T>({ rows, columns, label, lines }: {
  readonly rows: readonly T[];
  readonly columns: readonly Column<T>[];
  readonly label: string;
  /** The most rows that it is high; as high as there is room for without it. */
  readonly lines?: number;
}): VNode {
  const { frame, measure, top, height } = useView();
  const first = Math.max(0, Math.floor(top / ROW_HEIGHT) - SPARE);
  const last = Math.ceil((top + height) / ROW_HEIGHT) + SPARE;
  const grid = {
    gridTemplateColumns: columns.map(({ width }) => width).join(" "),
  };
  const shown = Math.min(rows.length, lines ?? Infinity) * ROW_HEIGHT;
  return (
    <div
      class="rows"
      role="table"
      aria-label={label}
      aria-rowcount={rows.length}
    >
      <div class="row head" role="row" style={grid}>
        {columns.map(({ header }) => (
          <span key={header} role="columnheader">{header}</span>
        ))}
      </div>
      <div
        class={lines === undefined ? "rows-frame tall" : "rows-frame"}
        ref={frame}
        tabIndex={0}
        style={lines === undefined ? {} : { height: `${shown}px` }}
        onScroll={measure}
      >
        <div
          class="rows-all"
          style={{ height: `${rows.length * ROW_HEIGHT}px` }}
        >
          {rows.slice(first, last).map((row, n) => (
            <div
              class="row"
              role="row"
              key={first + n}
              style={{ ...grid, top: `${(first + n) * ROW_HEIGHT}px` }}
            >
              {columns.map(({ header, value }) => (
                <span key={header} role="cell">{value(row)}</span>
              ))}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

/** The part of a frame that is seen. */
function useView() {
  const frame = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const measure = () => {
    const element = frame.current;
    if (element === null) return;
    setView({ top: element.scrollTop, height: element.clientHeight });
  };
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return;
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return { frame, measure, ...view };
}
