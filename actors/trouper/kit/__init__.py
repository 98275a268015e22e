"""A small actor kit on Trio: mailboxes with back-pressure, asks, supervision, watching, orderly stop.

It stands alone: nothing here knows of agents or journals. See docs/actors.md.
"""

from trouper.errors import ActorError as ActorError
from trouper.errors import ActorFailed as ActorFailed
from trouper.errors import ActorStopped as ActorStopped
from trouper.errors import MailboxFull as MailboxFull
from trouper.errors import NameTaken as NameTaken
from trouper.errors import SelfWait as SelfWait
from trouper.kit._actor import Actor as Actor
from trouper.kit._actor import Context as Context
from trouper.kit._actor import Reply as Reply
from trouper.kit._lifecycle import State as State
from trouper.kit._messages import Request as Request
from trouper.kit._messages import Terminated as Terminated
from trouper.kit._ref import Ref as Ref
from trouper.kit._statistics import ActorStatistics as ActorStatistics
from trouper.kit._statistics import SystemStatistics as SystemStatistics
from trouper.kit._statistics import TreeNode as TreeNode
from trouper.kit._supervision import ESCALATE as ESCALATE
from trouper.kit._supervision import STOP as STOP
from trouper.kit._supervision import Supervision as Supervision
from trouper.kit._system import ActorSystem as ActorSystem
from trouper.kit._system import open_system as open_system
