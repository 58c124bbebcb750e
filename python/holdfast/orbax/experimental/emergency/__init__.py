"""Checkpoints on the hosts themselves, by Orbax's names, on `TieredManager`.

Every module below this package is made when it is imported, of the table in
`_names`. What needs Google's services, or looks into the files of Orbax's own
local checkpoints, refuses.
"""

from holdfast.orbax.experimental.emergency._names import make_modules

make_modules(__name__)
