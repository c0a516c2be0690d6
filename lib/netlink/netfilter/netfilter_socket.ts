import type { Netns } from "../../linux/mod.ts";
import type { NftElement, NftTable } from "./model.ts";

/** What a counter has counted. */
export interface NftCounter {
  /** Packets. */
  readonly packets: bigint;
  /** Bytes. */
  readonly bytes: bigint;
}

/** Elements of one set that come and go. */
export interface NftSetChange {
  /** The table's name. */
  readonly table: string;
  /** The set's name. */
  readonly set: string;
  /** What has to be there afterwards. */
  readonly add?: readonly NftElement[];
  /** What must not be there afterwards. */
  readonly remove?: readonly NftElement[];
}

/** Reads and changes the nf_tables of one namespace. */
export class NetfilterSocket implements Disposable {
  /** Opens a socket in a namespace. */
  static open(_options: { readonly netns?: Netns } = {}): NetfilterSocket {
    throw new TypeError("Cannot open netfilter socket: not written yet");
  }

  /** Makes the kernel's table this one, in one transaction. */
  replaceTable(_table: NftTable): Promise<void> {
    throw new TypeError("Cannot replace table: not written yet");
  }

  /** Deletes a table; false when there is none. */
  deleteTable(_name: string): Promise<boolean> {
    throw new TypeError("Cannot delete table: not written yet");
  }

  /** The names of the inet tables. */
  listTables(): Promise<string[]> {
    throw new TypeError("Cannot list tables: not written yet");
  }

  /** Adds and removes elements of a set in one transaction. */
  changeSet(_change: NftSetChange): Promise<void> {
    throw new TypeError("Cannot change set: not written yet");
  }

  /** The elements of a set. */
  listSet(_table: string, _set: string): Promise<NftElement[]> {
    throw new TypeError("Cannot list set: not written yet");
  }

  /** What the table's counters have counted. */
  readCounters(_table: string): Promise<ReadonlyMap<string, NftCounter>> {
    throw new TypeError("Cannot read counters: not written yet");
  }

  /** Closes the socket. */
  [Symbol.dispose](): void {}
}
