"""Tables computed from a journal's records, kept up with it exactly once: catch-up subscriptions with a position."""

from trouper_journal._errors import InvalidProjection as InvalidProjection
from trouper_journal._errors import ProjectionOutdated as ProjectionOutdated
from trouper_journal._projecting import Projected as Projected
from trouper_journal._projecting import open_projection as open_projection
from trouper_journal._projections import Cell as Cell
from trouper_journal._projections import Choosy as Choosy
from trouper_journal._projections import Entry as Entry
from trouper_journal._projections import Projection as Projection
from trouper_journal._projections import Tables as Tables
