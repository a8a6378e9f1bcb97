// What a person can mend: printed without a stack.

export class Refused extends Error {}
