// Does nothing: what a program of this runtime costs at least.
export {};
