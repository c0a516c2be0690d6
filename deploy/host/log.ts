/** Receives one line of progress. */
export type Log = (line: string) => void;
